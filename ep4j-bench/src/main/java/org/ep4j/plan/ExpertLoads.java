package org.ep4j.plan;

import java.util.Arrays;
import org.ep4j.verify.RoutingKind;

/** How many tokens choose each expert. */
public final class ExpertLoads {
  private ExpertLoads() {}

  /**
   * The load of each logical expert: counted over the tokens of the plan, or 1 for all where all
   * are equally likely. Only ratios mean something.
   */
  public static long[] of(PlanRequest request) {
    return count(request, new RoutedTokens(request, RoutedTokens.SEED));
  }

  /**
   * The load that a balancer knows before the tokens of the plan come: counted over as many other
   * tokens of the same distribution. Recorded tokens have no others, and are counted themselves.
   */
  public static long[] known(PlanRequest request) {
    return count(request, RoutedTokens.apart(request));
  }

  private static long[] count(PlanRequest request, RoutedTokens tokens) {
    long[] load = new long[request.experts()];
    if (request.routing() instanceof DrawnRouting drawn && drawn.kind() == RoutingKind.UNIFORM) {
      Arrays.fill(load, 1);
      return load;
    }
    tokens.forEach(
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
