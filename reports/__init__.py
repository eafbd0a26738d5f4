"""Pages and plots; all data comes from judged run folders."""
