"""How much load is safe."""

from campaigns.kinds import Kind

KIND = Kind(
    name="capacity",
    title="Capacity plan",
    many="Capacity plans",
    help="Measure how much load is safe, and plan brokers and headroom",
    why="To know how many brokers a load needs so that one of them may fail and catch up in time.",
    phases=(
        "Rising load on a healthy and on a degraded cluster, then brokers that are away for a while under "
        "several loads; a model of the catch-up is fitted, and tested at points outside the ones that it was "
        "fitted on."
    ),
    expected="How many brokers, how much headroom, and how long a broker may be down; or why no plan is possible.",
    reading="The page's first sentence is the plan; read what it does not cover before you use it.",
    examples=("capacity", "capacity --settings my-capacity.yaml --name plan-1"),
    docs_page="docs/capacity.md",
    settings_file="capacity.yaml",
)
