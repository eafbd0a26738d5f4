"""Foreign histories become run folders, so that the judge can look at what it did not record itself."""
