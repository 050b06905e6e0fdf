package org.ep4j.cuda.driver;

import java.util.ArrayDeque;
import java.util.Deque;

/** Resources of one owner, closed in reverse order. Used by one thread at a time. */
public final class ResourceStack implements AutoCloseable {
  private final Deque<AutoCloseable> owned = new ArrayDeque<>();

  /** An empty stack. */
  public ResourceStack() {}

  /** Adds a resource, which this stack then closes. */
  public <T extends AutoCloseable> T own(T resource) {
    owned.push(resource);
    return resource;
  }

  /** Closes all resources even if some throw; then throws the first error with the others suppressed. */
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
