"""The pages of the dashboard: each reads what it shows and makes its sections."""
