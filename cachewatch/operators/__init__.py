"""What operators see and do: the status of the service, its problems and alerts, and the answers to their questions."""
