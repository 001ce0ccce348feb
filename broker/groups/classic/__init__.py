"""Groups of the classic protocol: members join and sync, and one of them, the leader, assigns the partitions."""
