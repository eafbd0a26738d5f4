"""How much load is safe."""

from campaigns.kinds import Kind

KIND = Kind(
    name="capacity",
    title="Capacity plan",
    many="Capacity plans",
    help="Measure how much load is safe, and plan brokers and headroom",
    why="To find how many brokers a load needs, so that one of them may fail and catch up in time.",
    phases=(
        "The load rises on a healthy cluster, and on one with a stopped broker. Then a broker is down for a while "
        "under several loads. A model of the catch-up is fitted to these runs and tested on held-out runs."
    ),
    expected="The number of brokers, the headroom, and how long a broker may be down; or why no plan is possible.",
    reading="The page's first sentence is the plan. The page lists what the plan does not cover.",
    examples=("capacity", "capacity --settings my-capacity.yaml --name plan-1"),
    docs_page="docs/capacity.md",
    settings_file="capacity.yaml",
)
