"""What readers should do: from the changes, from what earlier digests asked for, and from what an environment needs.

`assess` in urgency_and_levels.py decides, by the rules in actions.py; Digest.assessment calls it.
"""
