package org.ep4j.cuda.struct;

/** A rank of another node that exchanges tokens with this rank, see {@code internode.cuh}. */
public final class InternodePartner extends Struct {
  public final U64 rank = u64("rank");
  public final U64 node = u64("node");

  /** 1: the partner is this rank's rail in {@code node}: own tokens for that node go to it. */
  public final U64 isReceiver = u64("is_receiver");

  /** 1: this rank is the rail of the partner, which sends its tokens for this node here. */
  public final U64 isSender = u64("is_sender");

  /** [slots] slots that this rank fills for the partner. */
  public final Pointer out = pointer("char*", "out");

  /** Not mapped: offset of {@code out} in the region of outgoing memory. */
  public final U64 outSource = u64("out_source");

  /** Not mapped: offset of the partner's ring for this rank in its landing memory. */
  public final U64 outTarget = u64("out_target");

  /** [slots] slots that arrive from the partner. */
  public final Pointer in = pointer("const char*", "in");

  /** [slots] counters of this rank. */
  public final Pointer arrived = pointer("const u64*", "arrived");

  /** [slots] counters of this rank. */
  public final Pointer credits = pointer("const u64*", "credits");

  /** Number of the partner's first counter {@code arrived} for this rank. */
  public final U64 remoteArrived = u64("remote_arrived");

  /** Number of the partner's first counter {@code credits} for this rank. */
  public final U64 remoteCredits = u64("remote_credits");

  public InternodePartner() {
    super("InternodePartner");
  }
}
