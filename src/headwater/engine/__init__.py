"""What runs by itself: ticks, lanes and polls."""
