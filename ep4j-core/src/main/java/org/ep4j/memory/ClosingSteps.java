package org.ep4j.memory;

import java.util.Collection;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The steps of a {@code close()} that are independent of each other: a step that throws skips none
 * behind it. Steps that free what an earlier step keeps from being used belong into one step, so
 * that a failure leaks memory instead of unmapping it under its users.
 */
public final class ClosingSteps {
  private ClosingSteps() {}

  /**
   * Runs all steps in order; then throws the first error, with the others suppressed in it.
   *
   * @param steps null for a step without work
   */
  public static void run(@Nullable Runnable... steps) {
    Throwable first = null;
    for (Runnable step : steps) {
      if (step == null) {
        continue;
      }
      try {
        step.run();
      } catch (RuntimeException | Error e) {
        if (first == null) {
          first = e;
        } else if (first != e) {
          first.addSuppressed(e);
        }
      }
    }
    switch (first) {
      case null -> {}
      case RuntimeException e -> throw e;
      case Error e -> throw e;
      default -> throw new AssertionError("only unchecked exceptions are caught", first);
    }
  }

  /** Closes each resource as a step of its own; nulls are skipped. */
  public static <T> void each(Collection<? extends @Nullable T> resources, Consumer<T> close) {
    List<? extends @Nullable T> all = resources.stream().toList();
    @Nullable Runnable[] steps = new Runnable[all.size()];
    for (int i = 0; i < steps.length; i++) {
      T resource = all.get(i);
      steps[i] = resource == null ? null : () -> close.accept(resource);
    }
    run(steps);
  }
}
