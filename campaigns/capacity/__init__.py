"""How much load is safe."""
