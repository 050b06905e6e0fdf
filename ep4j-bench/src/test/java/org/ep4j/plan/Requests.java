package org.ep4j.plan;

import java.util.EnumMap;
import java.util.Map;
import org.ep4j.config.BackendName;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.verify.RoutingKind;
import org.jspecify.annotations.Nullable;

/** Requests and profiles for tests; what a test does not set is small or free of cost. */
public final class Requests {
  private final int ranks;
  private final int ranksPerNode;
  private PlanKind kind = PlanKind.HT;
  private int tokens = 100;
  private int hidden = 128;
  private int topK = 1;
  private int experts;
  private PlanDType dtype = PlanDType.BF16;
  private RoutingKind routing = RoutingKind.UNIFORM;
  private int groups;
  private int sms = 1;
  private String backend = BackendName.DIRECT;
  private @Nullable RecordedRouting recorded;
  private @Nullable ReplicatedPlacement placement;

  private Requests(int ranks, int ranksPerNode) {
    this.ranks = ranks;
    this.ranksPerNode = ranksPerNode;
    this.experts = ranks;
  }

  public static Requests ht(int ranks, int ranksPerNode) {
    return new Requests(ranks, ranksPerNode);
  }

  public Requests kind(PlanKind value) {
    kind = value;
    return this;
  }

  public Requests tokens(int value) {
    tokens = value;
    return this;
  }

  public Requests hidden(int value) {
    hidden = value;
    return this;
  }

  public Requests topK(int value) {
    topK = value;
    return this;
  }

  public Requests experts(int value) {
    experts = value;
    return this;
  }

  public Requests dtype(PlanDType value) {
    dtype = value;
    return this;
  }

  public Requests routing(RoutingKind value) {
    routing = value;
    return this;
  }

  public Requests groups(int value) {
    groups = value;
    return this;
  }

  public Requests sms(int value) {
    sms = value;
    return this;
  }

  public Requests backend(String value) {
    backend = value;
    return this;
  }

  public Requests recorded(RecordedRouting value) {
    recorded = value;
    return this;
  }

  public Requests placement(ReplicatedPlacement value) {
    placement = value;
    return this;
  }

  public PlanRequest build() {
    return new PlanRequest(
        kind,
        ranks,
        ranksPerNode,
        tokens,
        hidden,
        topK,
        experts,
        dtype,
        recorded == null ? new DrawnRouting(routing, groups) : recorded,
        sms,
        backend,
        placement);
  }

  /** Constants of a machine in which everything is free, but for those given. */
  public static Map<ProfileConstant, MachineProfile.Sourced> constants(
      Map<ProfileConstant, Double> given) {
    Map<ProfileConstant, MachineProfile.Sourced> constants = new EnumMap<>(ProfileConstant.class);
    for (ProfileConstant constant : ProfileConstant.values()) {
      double free =
          switch (constant) {
            case RANKS_PER_NODE -> 8;
            case SMS -> 132;
            case NIC_PORTS -> 1;
            case NIC_GBPS -> 1e4;
            case NVLINK_DISPATCH_GBPS,
                NVLINK_COMBINE_GBPS,
                SM_GBPS,
                SM_COMBINE_GBPS,
                SM_NODE_GBPS,
                NIC_MMSGS ->
                1e5;
            case MEMORY_GBPS -> 1e6;
            default -> 0;
          };
      double value = given.getOrDefault(constant, free);
      constants.put(constant, new MachineProfile.Sourced(value, "a test"));
    }
    return constants;
  }

  /** A machine in which everything is free, but for the given constants. */
  public static MachineProfile machine(Map<ProfileConstant, Double> given) {
    return new MachineProfile("test", "test", constants(given));
  }
}
