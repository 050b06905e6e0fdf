package org.ep4j.plan;

import java.util.Arrays;
import org.ep4j.verify.RoutingKind;

/** How many tokens choose each expert. */
public final class ExpertLoads {
  private ExpertLoads() {}

  /**
   * The load of each logical expert: counted, or 1 for all where all are equally likely. Only
   * ratios mean something.
   */
  public static long[] of(PlanRequest request) {
    long[] load = new long[request.experts()];
    if (request.routing() instanceof DrawnRouting drawn && drawn.kind() == RoutingKind.UNIFORM) {
      Arrays.fill(load, 1);
      return load;
    }
    new RoutedTokens(request, RoutedTokens.SEED)
        .forEach(
            (rank, experts) -> {
              for (long expert : experts) {
                if (expert >= 0) {
                  load[(int) expert]++;
                }
              }
            });
    return load;
  }
}
