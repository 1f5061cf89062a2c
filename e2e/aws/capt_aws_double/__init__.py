"""An AWS double for end-to-end tests: moto, with an EKS that behaves and faults on demand."""
