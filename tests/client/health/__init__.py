"""What the doctor says, and that its fixes, run as they are printed, mend it."""
