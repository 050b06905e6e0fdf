package org.ep4j.c;

import java.util.Locale;

/**
 * The functions of {@code ep4j_api} in the order of the table. New ones come last: programs were
 * compiled with the positions of these.
 */
enum ApiFunction {
  LAST_ERROR,
  CLOSE,

  GROUP_FROM_ENVIRONMENT,
  GROUP_JOIN,
  GROUP_REJOIN,
  GROUP_IN_PROCESS,
  GROUP_INFO,
  GROUP_RANK_STATE,
  GROUP_ALL_GATHER,
  GROUP_BARRIER,
  GROUP_SURVIVORS,
  GROUP_READMIT,
  GROUP_FAIL,

  BUFFER_SIZES,
  BUFFER_OPEN,
  BUFFER_REJOIN,
  BUFFER_INFO,
  BUFFER_PLACEMENT,
  BUFFER_STATISTICS,
  BUFFER_WIRE_PATH,
  BUFFER_SET_PARALLELISM,
  BUFFER_WARM_UP,
  BUFFER_BARRIER,
  BUFFER_RESET,
  BUFFER_READMIT,

  DISPATCH_LAYOUT,
  DISPATCH,
  DISPATCH_RESULT,
  COMBINE_INPUT,
  COMBINE,
  COMBINE_RESULT,

  LOW_LATENCY_DISPATCH,
  LOW_LATENCY_DISPATCH_RESULT,
  LOW_LATENCY_COMBINE_INPUT,
  LOW_LATENCY_COMBINE,
  LOW_LATENCY_COMBINE_RESULT,
  LOW_LATENCY_RECEIVE,

  MASK_SET,
  MASK_GET,
  MASK_READ,
  MASK_CLEAR,

  EVENT_QUERY,
  EVENT_WAIT,

  TENSOR_READ,
  TENSOR_WRITE,
  ROUTING_FROM_DENSE,
  ROUTING_TO_DENSE,

  CALLER,
  INTERRUPT,

  ROUTING_COUNTER_OPEN,
  ROUTING_COUNTER_COUNT,

  BUFFER_OBSERVE,
  BUFFER_VERDICT;

  /** Name of the member of {@code ep4j_api}. */
  String cName() {
    return name().toLowerCase(Locale.ROOT);
  }

  /**
   * Calls the method of this name. Parameters are six registers: a pointer is a {@code long}, an
   * {@code int} has the lower half of its register, and a method of fewer parameters ignores the
   * other registers.
   *
   * @return the status of the call
   */
  int call(long a, long b, long c, long d, long e, long f) {
    return switch (this) {
      case LAST_ERROR -> Failures.lastError(a);
      case CLOSE -> ObjectFunctions.close(a);
      case GROUP_FROM_ENVIRONMENT -> GroupFunctions.groupFromEnvironment(a);
      case GROUP_JOIN -> GroupFunctions.groupJoin(a, b);
      case GROUP_REJOIN -> GroupFunctions.groupRejoin(a, b);
      case GROUP_IN_PROCESS -> GroupFunctions.groupInProcess((int) a, b);
      case GROUP_INFO -> GroupFunctions.groupInfo(a, b);
      case GROUP_RANK_STATE -> GroupFunctions.groupRankState(a, (int) b, c);
      case GROUP_ALL_GATHER -> GroupFunctions.groupAllGather(a, b, c, d, e);
      case GROUP_BARRIER -> GroupFunctions.groupBarrier(a, b);
      case GROUP_SURVIVORS -> GroupFunctions.groupSurvivors(a, b, c);
      case GROUP_READMIT -> GroupFunctions.groupReadmit(a, b, c, (int) d, e);
      case GROUP_FAIL -> GroupFunctions.groupFail(a, b);
      case BUFFER_SIZES -> BufferFunctions.bufferSizes(a, (int) b, c);
      case BUFFER_OPEN -> BufferFunctions.bufferOpen(a, b, c);
      case BUFFER_REJOIN -> BufferFunctions.bufferRejoin(a, b, c);
      case BUFFER_INFO -> BufferFunctions.bufferInfo(a, b);
      case BUFFER_PLACEMENT -> BufferFunctions.bufferPlacement(a, b, (int) c);
      case BUFFER_STATISTICS -> BufferFunctions.bufferStatistics(a, b);
      case BUFFER_WIRE_PATH -> BufferFunctions.bufferWirePath(a, (int) b, c);
      case BUFFER_SET_PARALLELISM -> BufferFunctions.bufferSetParallelism(a, (int) b);
      case BUFFER_WARM_UP -> BufferFunctions.bufferWarmUp(a);
      case BUFFER_BARRIER -> BufferFunctions.bufferBarrier(a);
      case BUFFER_RESET -> BufferFunctions.bufferReset(a);
      case BUFFER_READMIT -> BufferFunctions.bufferReadmit(a);
      case DISPATCH_LAYOUT -> ThroughputFunctions.dispatchLayout(a, b, (int) c, d);
      case DISPATCH -> ThroughputFunctions.dispatch(a, b, c);
      case DISPATCH_RESULT -> ThroughputFunctions.dispatchResult(a, b);
      case COMBINE_INPUT -> ThroughputFunctions.combineInput(a, (int) b, c);
      case COMBINE -> ThroughputFunctions.combine(a, b, c);
      case COMBINE_RESULT -> ThroughputFunctions.combineResult(a, b);
      case LOW_LATENCY_DISPATCH -> LowLatencyFunctions.lowLatencyDispatch(a, b, c);
      case LOW_LATENCY_DISPATCH_RESULT -> LowLatencyFunctions.lowLatencyDispatchResult(a, b);
      case LOW_LATENCY_COMBINE_INPUT -> LowLatencyFunctions.lowLatencyCombineInput(a, b);
      case LOW_LATENCY_COMBINE -> LowLatencyFunctions.lowLatencyCombine(a, b, c);
      case LOW_LATENCY_COMBINE_RESULT -> LowLatencyFunctions.lowLatencyCombineResult(a, b);
      case LOW_LATENCY_RECEIVE -> LowLatencyFunctions.lowLatencyReceive(a);
      case MASK_SET -> BufferFunctions.maskSet(a, (int) b, (int) c);
      case MASK_GET -> BufferFunctions.maskGet(a, (int) b, c);
      case MASK_READ -> BufferFunctions.maskRead(a, b);
      case MASK_CLEAR -> BufferFunctions.maskClear(a);
      case EVENT_QUERY -> ObjectFunctions.eventQuery(a, b);
      case EVENT_WAIT -> ObjectFunctions.eventWait(a, b, c);
      case TENSOR_READ -> TensorFunctions.tensorRead(a, b);
      case TENSOR_WRITE -> TensorFunctions.tensorWrite(a, b);
      case ROUTING_FROM_DENSE -> TensorFunctions.routingFromDense(a, b, c, d);
      case ROUTING_TO_DENSE -> TensorFunctions.routingToDense(a, b, c);
      case CALLER -> CallerFunctions.caller(a);
      case INTERRUPT -> CallerFunctions.interrupt(a);
      case ROUTING_COUNTER_OPEN ->
          RoutingCounterFunctions.routingCounterOpen((int) a, b, (int) c, d);
      case ROUTING_COUNTER_COUNT -> RoutingCounterFunctions.routingCounterCount(a, b, c, d);
      case BUFFER_OBSERVE -> ObservationFunctions.bufferObserve(a, b, c, (int) d, e, (int) f);
      case BUFFER_VERDICT -> ObservationFunctions.bufferVerdict(a, b, c, d);
    };
  }
}
