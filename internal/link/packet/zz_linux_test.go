package packet
import ("testing";"time";"fmt";"os";"slices"
"github.com/cofferhq/coffer/internal/link/linktest")

func TestZZ(t *testing.T) {
	var o []int64
	for range 30 { n := linktest.NewNamespace(t, 64646, "veth"); t0:=time.Now(); l, err := NewSocket(n.Files[0], Options{}); if err!=nil {t.Fatal(err)}; o=append(o, time.Since(t0).Microseconds()); l.Close() }
	slices.Sort(o)
	fmt.Println("open us", o[0], o[15]); _ = os.Args
}
