package org.ep4j.c;

import java.time.Duration;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.c.struct.Struct;
import org.ep4j.execution.Event;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/** Ends of objects, and events. */
final class ObjectFunctions {
  private ObjectFunctions() {}

  static int close(long number) {
    @Nullable Object object = number == 0 ? null : ObjectTable.PROCESS.find(number);
    switch (object) {
      case null -> {}
      case BufferObject buffer -> buffer.close();
      case Group group -> {
        group.close();
        ObjectTable.PROCESS.remove(number);
      }
      case RoutesObject routes -> {
        routes.handle().close();
        ObjectTable.PROCESS.remove(number);
      }
      case RoutingCounterFunctions.CounterObject counter -> {
        counter.counter().close();
        ObjectTable.PROCESS.remove(number);
      }
      case Event event -> ObjectTable.PROCESS.remove(number);
      default -> {
        // A result: the next operation ends it.
      }
    }
    return 0;
  }

  static int eventQuery(long event, long done) {
    Struct.requirePointer("done", done);
    NativeMemory.putInt(done, event(event).isDone() ? 1 : 0);
    return 0;
  }

  static int eventWait(long event, long timeout, long done) {
    Struct.requirePointer("done", done);
    Event found = event(event);
    boolean ended = true;
    if (timeout < 0) {
      found.await();
    } else {
      ended = found.await(Duration.ofMillis(timeout));
    }
    NativeMemory.putInt(done, ended ? 1 : 0);
    return 0;
  }

  private static Event event(long number) {
    return ObjectTable.PROCESS.get("event", number, Event.class, "an open event");
  }
}
