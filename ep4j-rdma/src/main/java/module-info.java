/** Wires of ep4j between hosts, on libraries that are found at run time: RDMA verbs and UCX. */
module org.ep4j.rdma {
  requires transitive org.ep4j;
  requires static org.jspecify;
}
