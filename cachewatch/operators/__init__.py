"""The views and commands for operators: status, problems and alerts of the service, and actions on deliveries."""
