"""Pages and plots for readers; all data comes from a judged run folder."""
