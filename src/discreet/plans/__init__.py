"""Plans: what would be released, with what error and at what cost, and the files and jobs that say so."""
