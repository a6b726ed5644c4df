"""The claims of each paper, one file per paper: sentences as data, with the statistic that decides each."""
