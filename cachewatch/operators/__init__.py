"""What operators see and do: the service's status, problems and alerts, and commands on digests and deliveries."""
