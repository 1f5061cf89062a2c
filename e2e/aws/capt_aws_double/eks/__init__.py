"""Amazon EKS. Its shapes, routes and limits come from botocore's model of the service."""
