"""Studio: plan, review and publish in a browser, on your own machine. The plan file is its whole state."""
