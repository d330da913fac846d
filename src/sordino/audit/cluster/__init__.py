"""Audits on a cluster, through dask.distributed; nothing here is imported unless a cluster is asked for."""

from sordino.audit.cluster.connection import ClusterOptions as ClusterOptions
from sordino.audit.cluster.fitting import FitOnCluster as FitOnCluster
from sordino.audit.cluster.training import train_on_cluster as train_on_cluster
