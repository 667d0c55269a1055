"""What readers should do, from the changes, earlier requests and environments: `assess` in urgency_and_levels.py."""
