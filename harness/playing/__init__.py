"""What is played: scenarios, their steps and gates, the runner and the settling."""
