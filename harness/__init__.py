"""What puts cluster, faults and checkers together: steps, runs, catalogue, report, command line."""
