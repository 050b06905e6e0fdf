package org.ep4j.group;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Groups of two ranks whose survivors meet in one barrier that rank 0 leaves by an interrupt of its
 * thread, before rank 1 calls it. All else is done by the groups themselves.
 */
public final class InterruptedBarrier {
  private static final Duration UNTIL_IT_WAITS = Duration.ofMillis(50);
  private static final int LIMIT_SECONDS = 30;

  private final CountDownLatch left = new CountDownLatch(1);

  /** Of one pair of ranks. */
  public InterruptedBarrier() {}

  /** The group of a rank; only its next survivors meet in that barrier. */
  public Group of(Group group) {
    boolean[] formed = new boolean[1];
    return proxy(
        (method, arguments) -> {
          Object result = invoke(group, method, arguments);
          if (!method.getName().equals("survivors") || formed[0]) {
            return result;
          }
          formed[0] = true;
          return survivors((Group) result);
        });
  }

  private Group survivors(Group live) {
    return proxy(
        (method, arguments) -> {
          if (!method.getName().equals("barrier") || left.getCount() == 0) {
            return invoke(live, method, arguments);
          }
          if (live.rank() != 0) {
            if (!left.await(LIMIT_SECONDS, TimeUnit.SECONDS)) {
              throw new AssertionError("rank 0 has not left the barrier");
            }
            return invoke(live, method, arguments);
          }
          Thread waiter = Thread.currentThread();
          Thread.ofVirtual()
              .start(
                  () -> {
                    LockSupport.parkNanos(UNTIL_IT_WAITS.toNanos());
                    waiter.interrupt();
                  });
          try {
            return invoke(live, method, arguments);
          } finally {
            left.countDown();
          }
        });
  }

  private interface Handler {
    Object handle(Method method, Object[] arguments) throws Throwable;
  }

  private static Group proxy(Handler handler) {
    return (Group)
        Proxy.newProxyInstance(
            Group.class.getClassLoader(),
            new Class<?>[] {Group.class},
            (self, method, arguments) -> handler.handle(method, arguments));
  }

  private static Object invoke(Group group, Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(group, arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }
}
