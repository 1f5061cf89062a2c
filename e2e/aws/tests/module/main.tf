# A whole EKS cluster in the default VPC: what the real provider asks of the double in a life of one.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "url" {
  type = string
}

variable "kubernetes_version" {
  type = string
}

variable "environment" {
  type = string
}

variable "desired_size" {
  type = number
}

variable "replicas" {
  type = number
}

provider "aws" {
  region                      = "us-east-1"
  skip_metadata_api_check     = true
  skip_credentials_validation = true
  skip_requesting_account_id  = true

  endpoints {
    autoscaling = var.url
    ec2         = var.url
    eks         = var.url
    iam         = var.url
    sts         = var.url
  }

  default_tags {
    tags = { environment = var.environment }
  }
}

data "aws_vpc" "default" {
  default = true
}

data "aws_subnets" "default" {
  filter {
    name   = "vpc-id"
    values = [data.aws_vpc.default.id]
  }

  filter {
    name   = "availability-zone"
    values = ["us-east-1a", "us-east-1b"]
  }
}

locals {
  services = {
    cluster = "eks"
    node    = "ec2"
    pod     = "pods.eks"
    admin   = "ec2"
  }
}

resource "aws_iam_role" "this" {
  for_each = local.services
  name     = "demo-${each.key}"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Principal = { Service = "${each.value}.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.this["cluster"].name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_iam_role_policy_attachment" "node" {
  role       = aws_iam_role.this["node"].name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
}

resource "aws_eks_cluster" "this" {
  name     = "demo"
  version  = var.kubernetes_version
  role_arn = aws_iam_role.this["cluster"].arn

  vpc_config {
    subnet_ids              = data.aws_subnets.default.ids
    endpoint_private_access = true
  }

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true
  }

  upgrade_policy {
    support_type = "STANDARD"
  }

  zonal_shift_config {
    enabled = true
  }

  enabled_cluster_log_types = ["api"]
  depends_on                = [aws_iam_role_policy_attachment.cluster]
}

resource "aws_eks_node_group" "this" {
  cluster_name    = aws_eks_cluster.this.name
  version         = aws_eks_cluster.this.version
  node_group_name = "workers"
  node_role_arn   = aws_iam_role.this["node"].arn
  subnet_ids      = data.aws_subnets.default.ids
  instance_types  = ["t3.medium"]
  labels          = { role = "worker" }

  scaling_config {
    min_size     = 1
    max_size     = 4
    desired_size = var.desired_size
  }

  update_config {
    max_unavailable_percentage = 33
  }

  taint {
    key    = "dedicated"
    value  = "yes"
    effect = "NO_SCHEDULE"
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

# It stays DEGRADED until the node group has nodes.
resource "aws_eks_addon" "coredns" {
  cluster_name         = aws_eks_cluster.this.name
  addon_name           = "coredns"
  configuration_values = jsonencode({ replicaCount = var.replicas })
}

data "aws_eks_addon_version" "kube_proxy" {
  addon_name         = "kube-proxy"
  kubernetes_version = aws_eks_cluster.this.version
}

resource "aws_eks_addon" "kube_proxy" {
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = "kube-proxy"
  addon_version               = data.aws_eks_addon_version.kube_proxy.version
  resolve_conflicts_on_update = "OVERWRITE"
}

resource "aws_eks_addon" "ebs" {
  cluster_name = aws_eks_cluster.this.name
  addon_name   = "aws-ebs-csi-driver"

  pod_identity_association {
    role_arn        = aws_iam_role.this["pod"].arn
    service_account = "ebs-csi-controller-sa"
  }

  depends_on = [aws_eks_node_group.this]
}

resource "aws_eks_access_entry" "admin" {
  cluster_name      = aws_eks_cluster.this.name
  principal_arn     = aws_iam_role.this["admin"].arn
  kubernetes_groups = ["admins"]
}

resource "aws_eks_access_policy_association" "admin" {
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.admin.principal_arn
  policy_arn    = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}

resource "aws_eks_pod_identity_association" "app" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "default"
  service_account = "app"
  role_arn        = aws_iam_role.this["pod"].arn
}

data "aws_eks_cluster_auth" "this" {
  name = aws_eks_cluster.this.name
}

resource "aws_iam_openid_connect_provider" "this" {
  url             = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list  = ["sts.amazonaws.com"]
  thumbprint_list = ["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"]
}

output "version" {
  value = aws_eks_cluster.this.version
}

output "group" {
  value = aws_eks_node_group.this.resources[0].autoscaling_groups[0].name
}
