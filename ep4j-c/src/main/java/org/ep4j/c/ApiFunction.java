package org.ep4j.c;

import java.lang.reflect.Method;
import java.util.Locale;

/**
 * The functions of {@code ep4j_api} in the order of the table. New ones come last: programs were
 * compiled with the positions of these.
 */
enum ApiFunction {
  LAST_ERROR(Failures.class),
  CLOSE(ObjectFunctions.class),

  GROUP_FROM_ENVIRONMENT(GroupFunctions.class),
  GROUP_JOIN(GroupFunctions.class),
  GROUP_REJOIN(GroupFunctions.class),
  GROUP_IN_PROCESS(GroupFunctions.class),
  GROUP_INFO(GroupFunctions.class),
  GROUP_RANK_STATE(GroupFunctions.class),
  GROUP_ALL_GATHER(GroupFunctions.class),
  GROUP_BARRIER(GroupFunctions.class),
  GROUP_SURVIVORS(GroupFunctions.class),
  GROUP_READMIT(GroupFunctions.class),
  GROUP_FAIL(GroupFunctions.class),

  BUFFER_SIZES(BufferFunctions.class),
  BUFFER_OPEN(BufferFunctions.class),
  BUFFER_REJOIN(BufferFunctions.class),
  BUFFER_INFO(BufferFunctions.class),
  BUFFER_PLACEMENT(BufferFunctions.class),
  BUFFER_STATISTICS(BufferFunctions.class),
  BUFFER_WIRE_PATH(BufferFunctions.class),
  BUFFER_SET_PARALLELISM(BufferFunctions.class),
  BUFFER_WARM_UP(BufferFunctions.class),
  BUFFER_BARRIER(BufferFunctions.class),
  BUFFER_RESET(BufferFunctions.class),
  BUFFER_READMIT(BufferFunctions.class),

  DISPATCH_LAYOUT(ThroughputFunctions.class),
  DISPATCH(ThroughputFunctions.class),
  DISPATCH_RESULT(ThroughputFunctions.class),
  COMBINE_INPUT(ThroughputFunctions.class),
  COMBINE(ThroughputFunctions.class),
  COMBINE_RESULT(ThroughputFunctions.class),

  LOW_LATENCY_DISPATCH(LowLatencyFunctions.class),
  LOW_LATENCY_DISPATCH_RESULT(LowLatencyFunctions.class),
  LOW_LATENCY_COMBINE_INPUT(LowLatencyFunctions.class),
  LOW_LATENCY_COMBINE(LowLatencyFunctions.class),
  LOW_LATENCY_COMBINE_RESULT(LowLatencyFunctions.class),
  LOW_LATENCY_RECEIVE(LowLatencyFunctions.class),

  MASK_SET(BufferFunctions.class),
  MASK_GET(BufferFunctions.class),
  MASK_READ(BufferFunctions.class),
  MASK_CLEAR(BufferFunctions.class),

  EVENT_QUERY(ObjectFunctions.class),
  EVENT_WAIT(ObjectFunctions.class),

  TENSOR_READ(TensorFunctions.class),
  TENSOR_WRITE(TensorFunctions.class),
  ROUTING_FROM_DENSE(TensorFunctions.class),
  ROUTING_TO_DENSE(TensorFunctions.class),

  CALLER(CallerFunctions.class),
  INTERRUPT(CallerFunctions.class),

  ROUTING_COUNTER_OPEN(RoutingCounterFunctions.class),
  ROUTING_COUNTER_COUNT(RoutingCounterFunctions.class),

  BUFFER_OBSERVE(ObservationFunctions.class),
  BUFFER_VERDICT(ObservationFunctions.class);

  private final Class<?> owner;

  ApiFunction(Class<?> owner) {
    this.owner = owner;
  }

  /** Name of the member of {@code ep4j_api}. */
  String cName() {
    return name().toLowerCase(Locale.ROOT);
  }

  /**
   * The method behind it: static, of the same name in Java's spelling, with {@code int} and {@code
   * long} parameters; a pointer is a {@code long}. Returns a status.
   */
  Method method() {
    String name = javaName();
    for (Method method : owner.getDeclaredMethods()) {
      if (method.getName().equals(name)) {
        return method;
      }
    }
    throw new AssertionError(owner.getName() + " has no method " + name);
  }

  private String javaName() {
    StringBuilder name = new StringBuilder();
    for (String word : cName().split("_", -1)) {
      name.append(
          name.isEmpty()
              ? word
              : word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1));
    }
    return name.toString();
  }
}
