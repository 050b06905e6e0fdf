package org.ep4j.engine.host;

/**
 * Which ways of a dispatch lead to one node.
 *
 * @param first first rank of the node
 * @param end behind its last one
 */
record NodeRoutes(int first, int end) {
  /** Whether a way leads there. */
  boolean holds(long route) {
    return route >= 0 && RowTarget.rank(route) >= first && RowTarget.rank(route) < end;
  }

  /** The first way of a token that leads there; negative if none does. */
  int firstOf(HostHandle handle, int token) {
    for (int i = handle.start[token]; i < handle.start[token + 1]; i++) {
      if (holds(handle.routes[i])) {
        return i;
      }
    }
    return -1;
  }
}
