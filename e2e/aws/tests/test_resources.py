"""Everything that exists is listed, and nothing is deleted that something depends on."""

from __future__ import annotations

from .harness import DoubleTest


class Resources(DoubleTest):
    def kinds(self) -> list[str]:
        return sorted(f"{entry['service']}:{entry['kind']}" for entry in self.double.admin("GET", "resources"))

    def test_an_account_is_empty(self) -> None:
        self.ec2.describe_vpcs()
        self.iam.list_users()
        self.assertEqual(self.kinds(), [])

    def test_services_beside_the_network(self) -> None:
        client = self.double.client
        client("s3").create_bucket(Bucket="bucket")
        client("sqs").create_queue(QueueName="queue")
        client("logs").create_log_group(logGroupName="group")
        client("secretsmanager").create_secret(Name="secret", SecretString="x")
        key = client("kms").create_key()["KeyMetadata"]["KeyId"]
        self.iam.create_user(UserName="user")
        policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
        arn = self.iam.create_policy(PolicyName="policy", PolicyDocument=policy)["Policy"]["Arn"]
        wanted = ["iam:policy", "iam:user", "kms:key", "logs:log-group", "s3:bucket", "secretsmanager:secret",
                  "sqs:queue"]
        self.assertEqual(self.kinds(), wanted)
        client("s3").delete_bucket(Bucket="bucket")
        client("sqs").delete_queue(QueueUrl=client("sqs").get_queue_url(QueueName="queue")["QueueUrl"])
        client("logs").delete_log_group(logGroupName="group")
        client("secretsmanager").delete_secret(SecretId="secret")
        client("kms").schedule_key_deletion(KeyId=key)
        self.iam.delete_user(UserName="user")
        self.iam.delete_policy(PolicyArn=arn)
        self.assertEqual(self.kinds(), [])

    def test_a_network_goes_from_the_leaves(self) -> None:
        ec2 = self.ec2
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        zones = ["us-east-1a", "us-east-1b"]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
            for index, zone in enumerate(zones)
        ]
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = ec2.create_nat_gateway(SubnetId=subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
        table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        association = ec2.associate_route_table(RouteTableId=table, SubnetId=subnets[0])["AssociationId"]
        group = ec2.create_security_group(GroupName="own", Description="own", VpcId=vpc)["GroupId"]
        instance = ec2.run_instances(
            ImageId="ami-12345678", MinCount=1, MaxCount=1, SubnetId=subnets[1], SecurityGroupIds=[group]
        )["Instances"][0]["InstanceId"]
        found = self.kinds()
        for kind in ("vpc", "subnet", "internet-gateway", "elastic-ip", "nat-gateway", "route-table",
                     "security-group", "instance"):
            self.assertIn(f"ec2:{kind}", found)

        depends = "DependencyViolation"
        self.refuses(depends, "has dependencies", ec2.delete_vpc, VpcId=vpc)
        self.refuses(depends, "has dependencies", ec2.delete_subnet, SubnetId=subnets[0])
        self.refuses(depends, "has dependencies", ec2.delete_subnet, SubnetId=subnets[1])
        self.refuses(depends, "dependent object", ec2.delete_security_group, GroupId=group)
        self.refuses(depends, "mapped public address", ec2.detach_internet_gateway, InternetGatewayId=gateway,
                     VpcId=vpc)
        self.refuses(depends, "has dependencies", ec2.delete_route_table, RouteTableId=table)

        ec2.terminate_instances(InstanceIds=[instance])
        ec2.delete_security_group(GroupId=group)
        ec2.delete_nat_gateway(NatGatewayId=nat)
        ec2.release_address(AllocationId=address)
        ec2.disassociate_route_table(AssociationId=association)
        ec2.delete_route_table(RouteTableId=table)
        for subnet in subnets:
            ec2.delete_subnet(SubnetId=subnet)
        self.refuses(depends, "has dependencies", ec2.delete_vpc, VpcId=vpc)
        ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        ec2.delete_internet_gateway(InternetGatewayId=gateway)
        ec2.delete_vpc(VpcId=vpc)
        self.assertEqual(self.kinds(), [])

    def test_a_cluster_holds_its_network(self) -> None:
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=zone)
            for index, zone in enumerate(["us-east-1a", "us-east-1b"])
        ]
        ids = [subnet["Subnet"]["SubnetId"] for subnet in subnets]
        self.cluster(resourcesVpcConfig={"subnetIds": ids})
        self.refuses("DependencyViolation", "has dependencies", self.ec2.delete_subnet, SubnetId=ids[0])
        self.eks.delete_cluster(name="demo")
        for id in ids:
            self.ec2.delete_subnet(SubnetId=id)
        self.ec2.delete_vpc(VpcId=vpc)
        self.assertEqual(self.kinds(), ["iam:role"])

    def test_images_of_nodes(self) -> None:
        names = [{"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-standard-1.33-v*"]}]
        images = self.ec2.describe_images(Owners=["amazon"], Filters=names)["Images"]
        self.assertEqual(len(images), 1)
