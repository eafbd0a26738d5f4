"""Convert foreign histories into run folders that the judge can judge."""
