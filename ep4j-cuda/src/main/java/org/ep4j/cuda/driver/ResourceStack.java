package org.ep4j.cuda.driver;

import java.util.ArrayDeque;
import java.util.Deque;

/** Resources of one owner, given back in the opposite order. Used by one thread at a time. */
public final class ResourceStack implements AutoCloseable {
  private final Deque<AutoCloseable> owned = new ArrayDeque<>();

  /** None yet. */
  public ResourceStack() {}

  /** From now on closed with this. */
  public <T extends AutoCloseable> T own(T resource) {
    owned.push(resource);
    return resource;
  }

  /** Closes all, whatever some of them throw; then throws the first of that, the others with it. */
  @Override
  public void close() {
    RuntimeException first = null;
    while (!owned.isEmpty()) {
      try {
        owned.pop().close();
      } catch (Exception e) {
        RuntimeException problem =
            e instanceof RuntimeException known ? known : new IllegalStateException(e);
        if (first == null) {
          first = problem;
        } else {
          first.addSuppressed(problem);
        }
      }
    }
    if (first != null) {
      throw first;
    }
  }
}
