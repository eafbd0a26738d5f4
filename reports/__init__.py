"""Pages and plots that people look at; reads a judged run folder and nothing else."""
