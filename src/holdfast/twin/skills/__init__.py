"""A playground of plain toys and skills, on which a base policy is pretrained before it sees any task."""
