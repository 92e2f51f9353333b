"""What a fit leaves behind: prototypes, the record of its rounds, and who split from whom."""
