"""Run the judge as a Spark application.

spark-submit puts this folder first on ``sys.path``, so no module may have a library's name. PYTHONPATH has the
project's root.
"""
