package org.ep4j.c.struct;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;

/** A number names one object, and nothing after the end of that object. */
class ObjectTableTest {
  private final ObjectTable table = new ObjectTable();

  @Test
  void aNumberOfAClosedObjectNamesNoLaterOne() {
    long first = table.add("first", ObjectTable.NO_OWNER);
    table.remove(first);
    long second = table.add("second", ObjectTable.NO_OWNER);
    assertThat(get(second)).isEqualTo("second");
    assertThatThrownBy(() -> get(first))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith("EP4J-1040: text = " + first + ", which is closed");
    assertThat(table.find(first)).isNull();
  }

  @Test
  void aRenewedObjectHasOnlyItsNewNumber() {
    long old = table.add("same", ObjectTable.NO_OWNER);
    long renewed = table.renew(old);
    assertThat(get(renewed)).isEqualTo("same");
    assertThatThrownBy(() -> get(old)).hasMessageContaining("overwritten");
  }

  @Test
  void anOwnerTakesItsObjectsAlong() {
    long owner = table.add("owner", ObjectTable.NO_OWNER);
    long owned = table.add("owned", owner);
    long other = table.add("other", ObjectTable.NO_OWNER);
    table.remove(owner);
    assertThat(table.find(owned)).isNull();
    assertThat(get(other)).isEqualTo("other");
  }

  /** Two threads may close one object, or an object and its owner. */
  @Test
  void anObjectRemovedTwiceFreesItsPlaceOnce() {
    long removed = table.add("removed", ObjectTable.NO_OWNER);
    table.remove(removed);
    table.remove(removed);
    long first = table.add("first", ObjectTable.NO_OWNER);
    table.remove(removed);
    long second = table.add("second", ObjectTable.NO_OWNER);
    assertThat(get(first)).isEqualTo("first");
    assertThat(get(second)).isEqualTo("second");
  }

  @Test
  void foreignNumbersAndOtherKindsAreRefused() {
    long number = table.add("text", ObjectTable.NO_OWNER);
    for (long foreign : new long[] {0, 1, -1, number + 1, number + (1L << 20), Long.MIN_VALUE}) {
      assertThatThrownBy(() -> get(foreign)).isInstanceOf(InvalidArgumentException.class);
      assertThatThrownBy(() -> table.find(foreign)).isInstanceOf(InvalidArgumentException.class);
    }
    assertThatThrownBy(() -> table.get("count", number, Integer.class, "an integer"))
        .hasMessageContaining("another kind");
  }

  @Test
  void manyObjectsKeepTheirNumbers() {
    long[] numbers = new long[1000];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = table.add("object " + i, ObjectTable.NO_OWNER);
    }
    for (int i = 0; i < numbers.length; i++) {
      assertThat(get(numbers[i])).isEqualTo("object " + i);
    }
  }

  private String get(long number) {
    return table.get("text", number, String.class, "a text");
  }
}
