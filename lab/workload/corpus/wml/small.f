set $n=10
set $s=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
define fileset name=a,path=/x,size=$s,entries=$n,dirwidth=20,prealloc=80
define process name=p,instances=2 { thread name=t,instances=3 { flowop createfile name=c,filesetname=a,fd=1
 flowop closefile name=d,fd=1
 } }
run 60
