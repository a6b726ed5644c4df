"""What each paper says, one file a paper: sentences as data, with the statistic that decides each."""
