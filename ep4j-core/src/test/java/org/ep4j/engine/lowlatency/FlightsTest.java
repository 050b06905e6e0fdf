package org.ep4j.engine.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

/** The order of low-latency operations of one buffer, whatever an engine does in them. */
class FlightsTest {
  private final Guard guard = new Guard();
  private final Flights flights = new Flights(guard);
  private final List<Long> received = new ArrayList<>();

  private static final class Guard implements Flights.Entry {
    boolean inside;
    boolean broken;

    @Override
    public void enter() {
      assertThat(inside).isFalse();
      inside = true;
    }

    @Override
    public void leave() {
      inside = false;
    }

    @Override
    public void requireUsable() {
      if (broken) {
        throw new IllegalStateException("broken");
      }
    }
  }

  private final class Op implements Flight.Work {
    final Flight flight;
    boolean refuses;

    Op(Flights.Kind kind) {
      flight = new Flight(flights, kind, this);
    }

    @Override
    public void receive() {
      if (refuses) {
        throw new IllegalStateException("not launched");
      }
      received.add(flight.number());
      flight.received();
    }

    @Override
    public void awaitSent() {
      // Sent by this thread.
    }

    @Override
    public void awaitResults() {
      // Complete when received.
    }
  }

  private Op begin(Flights.Kind kind, boolean hooked, boolean overwritten) {
    flights.requirePlace();
    Op op = new Op(kind);
    flights.start(op.flight, kind, hooked, overwritten);
    flights.add(op.flight);
    op.flight.sent();
    if (!hooked) {
      flights.receiveUpTo(op.flight);
    }
    return op;
  }

  private Op dispatch(boolean hooked) {
    return begin(flights.dispatches, hooked, true);
  }

  @Test
  void aThirdOperationInFlightIsRefused() {
    Op first = dispatch(true);
    Op second = dispatch(true);
    refused(ErrorCode.TOO_MANY_IN_FLIGHT, () -> dispatch(true));
    first.flight.receive();
    dispatch(true);
    refused(ErrorCode.TOO_MANY_IN_FLIGHT, () -> dispatch(false));
    second.flight.receive();
    assertThat(received).containsExactly(1L, 2L);
  }

  @Test
  void operationsAreReceivedInTheOrderInWhichTheyWereSent() {
    dispatch(true);
    Op second = dispatch(true);
    second.flight.receive();
    assertThat(received).containsExactly(1L, 2L);
    dispatch(true);
    dispatch(false);
    assertThat(received).containsExactly(1L, 2L, 3L, 4L);
    dispatch(true);
    flights.receiveAll();
    assertThat(received).endsWith(5L);
  }

  @Test
  void aHookIsCalledOnceAndOnlyIfThereIsOne() {
    Op hooked = dispatch(true);
    refused(ErrorCode.HOOK_NOT_CALLED, hooked.flight::requireResults);
    refused(ErrorCode.HOOK_NOT_CALLED, () -> Flights.requireReceived(hooked.flight));
    hooked.flight.hook().receive();
    assertThat(guard.inside).isFalse();
    hooked.flight.requireResults();
    refused(ErrorCode.HOOK_CALLED_TWICE, hooked.flight::receive);
    refused(ErrorCode.NO_HOOK, dispatch(false).flight::hook);
  }

  @Test
  void aHookWhoseReceiptCouldNotBeginIsCalledAgain() {
    Op op = dispatch(true);
    op.refuses = true;
    assertThatThrownBy(op.flight::receive).hasMessage("not launched");
    op.refuses = false;
    guard.broken = true;
    assertThatThrownBy(op.flight::receive).hasMessage("broken");
    guard.broken = false;
    op.flight.receive();
    assertThat(received).containsExactly(1L);
    assertThat(guard.inside).isFalse();
  }

  @Test
  void theSecondNextOperationOfAKindOutdatesResultsInTheMemoryOfTheBuffer() {
    Op dispatch = dispatch(false);
    Op combine = begin(flights.combines, false, true);
    Op own = begin(flights.combines, false, false);
    dispatch(false);
    dispatch.flight.requireResults();
    dispatch(false);
    refused(ErrorCode.RESULTS_OVERWRITTEN, dispatch.flight::requireResults);
    combine.flight.requireResults();
    begin(flights.combines, false, true);
    refused(ErrorCode.RESULTS_OVERWRITTEN, combine.flight::requireResults);
    begin(flights.combines, false, true);
    own.flight.requireResults();
  }

  @Test
  void aResetDropsWhatIsInFlightAndAllResults() {
    Op dispatch = dispatch(false);
    Op combine = begin(flights.combines, false, true);
    Op own = begin(flights.combines, true, false);
    flights.reset(9);
    refused(ErrorCode.RESULTS_OVERWRITTEN, dispatch.flight::requireResults);
    refused(ErrorCode.RESULTS_OVERWRITTEN, combine.flight::requireResults);
    refused(ErrorCode.NO_RESULTS, own.flight::requireResults);
    refused(ErrorCode.NO_RESULTS, own.flight::receive);
    assertThat(dispatch(true).flight.number()).isEqualTo(10);
    dispatch(true);
  }

  @Test
  void aRankCatchesUpOnlyWithNothingInFlight() {
    Op first = dispatch(true);
    refused(ErrorCode.HOOK_NOT_CALLED, () -> flights.catchUp(6, 1));
    flights.catchUp(1, 1);
    first.flight.receive();
    flights.catchUp(6, 1);
    assertThat(dispatch(true).flight.number()).isEqualTo(7);
    dispatch(true);
    refused(ErrorCode.TOO_MANY_IN_FLIGHT, () -> dispatch(true));
  }

  private static void refused(ErrorCode code, ThrowingCallable call) {
    assertThatThrownBy(call).hasMessageStartingWith(code.id());
  }
}
