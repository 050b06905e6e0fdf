package org.ep4j.engine.host.context;

import org.ep4j.engine.host.context.HostHandle.RowTarget;

/**
 * The routes of a dispatch that lead to one node.
 *
 * @param first first rank of the node
 * @param end the rank after the last one
 */
public record NodeRoutes(int first, int end) {
  /** Whether a route leads to the node. */
  public boolean holds(long route) {
    return RowTarget.rank(route) >= first && RowTarget.rank(route) < end;
  }

  /** The first route of a token to the node; negative if there is none. */
  public int firstOf(HostHandle handle, int token) {
    for (int i = handle.start[token]; i < handle.start[token + 1]; i++) {
      if (holds(handle.routes[i])) {
        return i;
      }
    }
    return -1;
  }
}
