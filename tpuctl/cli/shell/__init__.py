"""What every command uses: options, runtime, output, progress."""
