"""Many runs that answer one question: which runs, in which order, and what they say together."""
