package org.ep4j.plan;

import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeSet;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Plans beside the plan of a request: with another number of SMs, on a machine of which one part is
 * faster, of another number of ranks. Each is what {@link Plan#of} predicts for it.
 */
public final class PlanVariants {
  /** Ranks of the largest world, in multiples of those of the request. */
  private static final int MAX_MULTIPLE = 4;

  /** Parts of a machine, and the constants that are their rates. */
  private static final Map<Term, List<ProfileConstant>> RATES =
      Map.of(
          Term.NVLINK,
          List.of(ProfileConstant.NVLINK_DISPATCH_GBPS, ProfileConstant.NVLINK_COMBINE_GBPS),
          Term.NIC,
          List.of(ProfileConstant.NIC_GBPS, ProfileConstant.NIC_MMSGS),
          Term.MEMORY,
          List.of(ProfileConstant.MEMORY_GBPS));

  /**
   * A plan beside that of the request.
   *
   * @param request what is planned
   * @param plan its predictions
   */
  public record Variant(PlanRequest request, Plan plan) {}

  private final MachineProfile profile;
  private final PlanRequest request;
  private final Traffic traffic;

  /**
   * Counts the traffic of the request.
   *
   * @param request as {@link Plan#of} accepts it
   */
  public PlanVariants(MachineProfile profile, PlanRequest request) {
    this.profile = profile;
    this.request = request;
    traffic = Traffic.of(request);
  }

  /**
   * The plan with another number of SMs.
   *
   * @param sms as many as a GPU of the machine has, at most
   */
  public Variant withSms(int sms) {
    PlanRequest other = request.withSms(sms);
    return new Variant(other, Plan.of(profile, other, traffic));
  }

  /**
   * The plan on machines of which one part has twice its rate: NVLink, the NIC, the memory. Twice
   * the SMs, or all of a GPU, for high throughput. A part that moves no rows is left out, and so
   * are SMs if the request has them all.
   */
  public Map<Term, Variant> faster() {
    Plan plan = Plan.of(profile, request, traffic);
    Map<Term, Variant> variants = new EnumMap<>(Term.class);
    for (Term part : List.of(Term.NVLINK, Term.NIC, Term.MEMORY)) {
      MachineProfile faster = withTwice(part);
      if (plan.dispatch().terms().getOrDefault(part, 0.0) > 0 && faster != null) {
        variants.put(part, new Variant(request, Plan.of(faster, request, traffic)));
      }
    }
    int sms = Math.min(2 * request.sms(), profile.count(ProfileConstant.SMS));
    if (request.kind() == PlanKind.HT && sms > request.sms()) {
      variants.put(Term.SM, withSms(sms));
    }
    return variants;
  }

  private @Nullable MachineProfile withTwice(Term part) {
    Map<ProfileConstant, MachineProfile.Sourced> changed = new EnumMap<>(ProfileConstant.class);
    for (ProfileConstant constant : Objects.requireNonNull(RATES.get(part))) {
      double twice = 2 * profile.value(constant);
      if (!constant.allows(twice)) {
        return null;
      }
      changed.put(constant, new MachineProfile.Sourced(twice, "twice " + profile.source(constant)));
    }
    return profile.with(profile.name(), changed);
  }

  /**
   * Plans of worlds whose ranks are powers of two, from 2 up to four times those of the request,
   * and of the request itself. Each rank keeps its tokens. Worlds that no request can have are left
   * out, as those over which the experts do not divide evenly.
   *
   * @param nodeSize ranks of a node; a world has the greatest divisor of its ranks up to this
   */
  public List<Variant> overRanks(int nodeSize) {
    TreeSet<Integer> worlds = new TreeSet<>(List.of(request.ranks()));
    for (int ranks = 2; ranks <= MAX_MULTIPLE * request.ranks(); ranks *= 2) {
      worlds.add(ranks);
    }
    // Traffic of drawn tokens takes up to seconds for each world.
    return worlds.stream()
        .flatMap(ranks -> ofRanks(ranks, nodeSize).stream())
        .parallel()
        .map(other -> new Variant(other, plan(other)))
        .toList();
  }

  private Optional<PlanRequest> ofRanks(int ranks, int nodeSize) {
    if (ranks == request.ranks()) {
      return Optional.of(request);
    }
    try {
      return Optional.of(request.withRanks(ranks, greatestDivisor(ranks, nodeSize)));
    } catch (InvalidArgumentException _) {
      return Optional.empty();
    }
  }

  private Plan plan(PlanRequest other) {
    return other == request ? Plan.of(profile, request, traffic) : Plan.of(profile, other);
  }

  /** The size of the largest nodes, all alike, of so many ranks; at most {@code max}. */
  public static int greatestDivisor(int ranks, int max) {
    int divisor = Math.min(ranks, max);
    while (ranks % divisor != 0) {
      divisor--;
    }
    return divisor;
  }
}
