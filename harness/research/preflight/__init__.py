"""Is this eval fit to judge a night of candidates? What `strop check` looks at before anything is spent."""
