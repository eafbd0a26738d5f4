"""Convert foreign histories into run folders, so that the judge can judge what it did not record itself."""
