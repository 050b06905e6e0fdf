package org.ep4j.conformance.wire;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;

/**
 * Runs checks of wires on one rank: the arguments of a {@link WireSetup}, then the names of the
 * checks.
 */
public final class WireJob implements RankJob {
  /** All checks except the huge one. */
  static final Map<String, WireCheck> CHECKS = new LinkedHashMap<>();

  static final String HUGE = "aHugePutArrives";

  static {
    CHECKS.put("bytesAreVisibleOnceCounted", ContentChecks::bytesAreVisibleOnceCounted);
    CHECKS.put("everyPutIsCountedOnce", ContentChecks::everyPutIsCountedOnce);
    CHECKS.put("addFollowsThePutsBeforeIt", ContentChecks::addFollowsThePutsBeforeIt);
    CHECKS.put("bytesMayChangeOnceTheyHaveLeft", ContentChecks::bytesMayChangeOnceTheyHaveLeft);
    CHECKS.put("manySmallPutsArrive", ContentChecks::manySmallPutsArrive);
    CHECKS.put("memoryOfTheCallerTravels", ContentChecks::memoryOfTheCallerTravels);
    CHECKS.put("regionsMayDiffer", ContentChecks::regionsMayDiffer);
    CHECKS.put("progressContextsRunConcurrently", ContentChecks::progressContextsRunConcurrently);
    CHECKS.put("aSlowPeerHoldsUpOnlyItself", FlowChecks::aSlowPeerHoldsUpOnlyItself);
    CHECKS.put(
        "whatHasLeftArrivesWithoutTheSender", FlowChecks::whatHasLeftArrivesWithoutTheSender);
    CHECKS.put(
        "lastWordsLeaveThoughThePeerHasStoppedPolling",
        FlowChecks::lastWordsLeaveThoughThePeerHasStoppedPolling);
    CHECKS.put(
        "whatHasLeftArrivesThoughTheSenderCloses",
        FlowChecks::whatHasLeftArrivesThoughTheSenderCloses);
    CHECKS.put(
        "closingDuringTrafficFailsOnlyTheLanesOfTheCloser",
        FlowChecks::closingDuringTrafficFailsOnlyTheLanesOfTheCloser);
    CHECKS.put(
        "lanesThatOnlyThePeerHasFoundLostFailWithItsCause",
        FlowChecks::lanesThatOnlyThePeerHasFoundLostFailWithItsCause);
    CHECKS.put("mistakesAreRefused", FlowChecks::mistakesAreRefused);
    CHECKS.put("nothingIsAllocatedOnceWarm", FlowChecks::nothingIsAllocatedOnceWarm);
  }

  /** Used by the worlds. */
  public WireJob() {}

  @Override
  public void run(Group group, List<String> arguments) throws Exception {
    WireSetup setup = WireSetup.parse(arguments);
    for (String name : arguments.subList(setup.arguments().size(), arguments.size())) {
      WireCheck check = name.equals(HUGE) ? ContentChecks::aHugePutArrives : CHECKS.get(name);
      if (check == null) {
        throw new IllegalArgumentException("there is no check '" + name + "'");
      }
      WireContext context = new WireContext(group, setup, new SplittableRandom(setup.seed()));
      try {
        check.run(context);
      } catch (Throwable t) {
        throw new AssertionError(name + " with " + setup + " on rank " + group.rank(), t);
      }
      // A rank that finishes early must not close its group while others use it.
      context.barrier();
    }
  }
}
