"""The judge as a Spark application: submits it, and spreads partitions over cores and hosts.

spark-submit puts this folder in front of ``sys.path``: no module here may have the name of a standard or a used
library. The package itself is found through PYTHONPATH, the root of the project.
"""
