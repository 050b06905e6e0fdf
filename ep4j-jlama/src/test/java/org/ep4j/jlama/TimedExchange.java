package org.ep4j.jlama;

import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;

/** An exchange that notes when it enters and leaves the calls of a decode step. */
final class TimedExchange extends ExpertExchange {
  private final ExpertPlacement placement;
  private final StepLog log;

  private TimedExchange(Group group, ExpertBuffer buffer, ExpertPlacement placement, StepLog log) {
    this.placement = placement;
    this.log = log;
    super(group, placement, buffer);
  }

  static TimedExchange open(Group group, MixtralConfig model, Duration timeout, StepLog log) {
    ExpertPlacement placement = placement(model, group.size());
    ExpertBuffer buffer = ExpertBuffer.open(group, config(model, placement, timeout));
    return new TimedExchange(group, timed(buffer, log), placement, log);
  }

  private static ExpertBuffer timed(ExpertBuffer buffer, StepLog log) {
    return (ExpertBuffer)
        Proxy.newProxyInstance(
            ExpertBuffer.class.getClassLoader(),
            new Class<?>[] {ExpertBuffer.class},
            (_, method, arguments) -> {
              String name = method.getName();
              boolean counts =
                  name.equals("lowLatencyDispatch") || name.equals("lowLatencyCombine");
              try {
                if (!counts) {
                  return method.invoke(buffer, arguments);
                }
                log.now();
                Object result = method.invoke(buffer, arguments);
                log.now();
                return result;
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  @Override
  Phase agree(Phase wanted) {
    log.now();
    Phase phase = super.agree(wanted);
    log.now();
    return phase;
  }

  @Override
  float[] exchange(float[] rows, Routing routing, Experts experts) {
    log.now();
    long sources = 0;
    for (int expert : routing.topkIdx().toIntArray()) {
      sources |= 1L << placement.rankOf(expert);
    }
    log.add(sources);
    long[] nanos = new long[1];
    float[] sums =
        super.exchange(
            rows,
            routing,
            (local, received) -> {
              long begin = System.nanoTime();
              float[] results = experts.apply(local, received);
              nanos[0] += System.nanoTime() - begin;
              return results;
            });
    log.now();
    log.add(nanos[0]);
    return sums;
  }
}
